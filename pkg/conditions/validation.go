package conditions

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The reasons that this package sets.
const (
	ReasonNotReported = "NotReported" // a declared, mirrored or summarized condition doesn't exist yet
	ReasonOutdated    = "Outdated"    // the condition was observed at an older generation; see [Root].Fresh
	ReasonAsExpected  = "AsExpected"  // all conditions of a summary have the expected status
	ReasonUnspecified = "Unspecified" // the caller set no reason, but the API requires one
)

// Limits of the Kubernetes API, in characters.
const (
	maxType    = 316
	maxReason  = 1024
	maxMessage = 32768
)

var (
	typeFormat   = regexp.MustCompile(`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`)
	reasonFormat = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)
)

// CheckType returns an error if the API server would reject the condition type.
func CheckType(conditionType string) error {
	switch {
	case conditionType == "":
		return fmt.Errorf("conditions: the condition type is empty: set a type such as Ready")
	case len(conditionType) > maxType:
		return fmt.Errorf("conditions: type %.40q... has %d characters: use at most %d", conditionType, len(conditionType), maxType)
	case !typeFormat.MatchString(conditionType):
		return fmt.Errorf("conditions: invalid type %q: use letters, digits, '-', '_' and '.', as in Ready or example.com/Ready", conditionType)
	}
	return nil
}

func checkCondition(c metav1.Condition) error {
	if err := CheckType(c.Type); err != nil {
		return err
	}
	switch c.Status {
	case metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown:
	default:
		return fmt.Errorf("conditions: %s has the invalid status %q: use True, False or Unknown", c.Type, c.Status)
	}
	if c.ObservedGeneration < 0 {
		return fmt.Errorf("conditions: observedGeneration of %s must not be negative, got %d: omit it to use the generation of the object", c.Type, c.ObservedGeneration)
	}
	return nil
}

// validReason keeps a valid reason and converts any other text to CamelCase.
func validReason(reason string) string {
	if len(reason) <= maxReason && reasonFormat.MatchString(reason) {
		return reason
	}
	var out strings.Builder
	for _, word := range strings.FieldsFunc(reason, func(r rune) bool { return !reasonLetter(r) }) {
		out.WriteString(strings.ToUpper(word[:1]))
		out.WriteString(word[1:])
	}
	word := strings.Trim(out.String(), ",:")
	switch {
	case word == "":
		return ReasonUnspecified
	case !reasonFormat.MatchString(word): // the word starts with a digit or an underscore
		word = "Reason" + word
	}
	if len(word) > maxReason {
		word = strings.TrimRight(word[:maxReason], ",:")
	}
	return word
}

func reasonLetter(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_,:", r)
}

// validMessage replaces invalid UTF-8 and cuts the message at the maximum length. If the API server replaced it instead, each reconcile
// would find a difference.
func validMessage(message string) string {
	message = strings.ToValidUTF8(message, "\uFFFD")
	if len(message) <= maxMessage || utf8.RuneCountInString(message) <= maxMessage {
		return message
	}
	const ellipsis = "..."
	keep := maxMessage - len(ellipsis)
	for i := range message {
		if keep == 0 {
			return message[:i] + ellipsis
		}
		keep--
	}
	return message
}
