package validation

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubernetes "k8s.io/apimachinery/pkg/util/validation"
)

// QualifiedName checks a label key, an annotation key or a finalizer. It must be a name, or a domain and a name separated by a slash.
func QualifiedName(key string) error {
	if len(kubernetes.IsQualifiedName(key)) == 0 {
		return nil
	}
	domain, name, hasDomain := strings.Cut(key, "/")
	if !hasDomain {
		return mixedCase.explain(key)
	}
	switch {
	case strings.Contains(name, "/"):
		return errors.New("it has more than one '/': use a name, or a domain and a name, such as example.com/name")
	case len(kubernetes.IsDNS1123Subdomain(domain)) > 0:
		return fmt.Errorf("the domain before the '/' is not valid: %w", lowerCaseWithDots.explain(domain))
	default:
		return fmt.Errorf("the name after the '/' is not valid: %w", mixedCase.explain(name))
	}
}

// LabelValue checks a label value, which may be empty.
func LabelValue(value string) error {
	if len(kubernetes.IsValidLabelValue(value)) == 0 {
		return nil
	}
	return mixedCase.explain(value)
}

// Subdomain checks an object name or a domain.
func Subdomain(name string) error {
	if len(kubernetes.IsDNS1123Subdomain(name)) == 0 {
		return nil
	}
	return lowerCaseWithDots.explain(name)
}

// DNSLabel checks a name without dots, such as a namespace.
func DNSLabel(name string) error {
	if len(kubernetes.IsDNS1123Label(name)) == 0 {
		return nil
	}
	return lowerCase.explain(name)
}

// Selector checks the keys, values and operators of a label selector.
func Selector(selector *metav1.LabelSelector) error {
	if selector == nil {
		return nil
	}
	var problems []error
	check := func(key string, values ...string) {
		if err := QualifiedName(key); err != nil {
			problems = append(problems, fmt.Errorf("the key %q is not valid: %w", key, err))
		}
		for _, value := range values {
			if err := LabelValue(value); err != nil {
				problems = append(problems, fmt.Errorf("the value %q of %q is not valid: %w", value, key, err))
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(selector.MatchLabels)) {
		check(key, selector.MatchLabels[key])
	}
	for _, requirement := range selector.MatchExpressions {
		check(requirement.Key, requirement.Values...)
	}
	if len(problems) > 0 {
		return errors.Join(problems...)
	}
	_, err := metav1.LabelSelectorAsSelector(selector)
	return err
}

// nameFormat is a rule for names.
type nameFormat struct {
	max        int    // maximum length in bytes
	upper      bool   // whether upper-case letters are allowed
	separators string // further characters that are allowed, but not at either end
	allowed    string // describes the allowed characters in explanations
}

var (
	mixedCase = nameFormat{max: kubernetes.LabelValueMaxLength, upper: true, separators: "-_.", allowed: "letters, digits, '-', '_' and '.'"}
	lowerCase = nameFormat{max: kubernetes.DNS1123LabelMaxLength, separators: "-", allowed: "lower-case letters, digits and '-'"}
	// lowerCaseWithDots is lowerCase parts separated by dots. Only the total length is limited.
	lowerCaseWithDots = nameFormat{max: kubernetes.DNS1123SubdomainMaxLength, separators: "-.", allowed: "lower-case letters, digits, '-' and '.'"}
)

// explain returns an error for a name that violates the format.
func (f nameFormat) explain(name string) error {
	edge := func(r byte) bool { return strings.IndexByte(f.separators, r) >= 0 }
	if name == "" {
		return fmt.Errorf("it is empty: use %s", f.allowed)
	}
	if i := strings.IndexFunc(name, func(r rune) bool { return !f.allows(r) }); i >= 0 {
		wrong, _ := utf8.DecodeRuneInString(name[i:])
		return fmt.Errorf("it contains %q: use %s", wrong, f.allowed)
	}
	switch {
	case len(name) > f.max:
		return fmt.Errorf("it has %d characters: use at most %d", len(name), f.max)
	case edge(name[0]):
		return fmt.Errorf("it begins with %q: begin with a letter or a digit", name[0])
	case edge(name[len(name)-1]):
		return fmt.Errorf("it ends with %q: end with a letter or a digit", name[len(name)-1])
	default: // a format with dots
		return errors.New("a part next to a '.' does not begin and end with a letter or a digit: correct it")
	}
}

func (f nameFormat) allows(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || f.upper && r >= 'A' && r <= 'Z' || strings.ContainsRune(f.separators, r)
}
