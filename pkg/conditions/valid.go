package conditions

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons that this package gives.
const (
	ReasonNotReported = "NotReported" // declared, mirrored or summarised, and nobody has said anything yet
	ReasonOutdated    = "Outdated"    // was observed of an older generation, see [Root].Fresh
	ReasonAsExpected  = "AsExpected"  // all that a root summarises is well
	ReasonUnspecified = "Unspecified" // no reason was given, and the API wants one
)

// The limits of the API, in characters.
const (
	maxType    = 316
	maxReason  = 1024
	maxMessage = 32768
)

var (
	typeFormat   = regexp.MustCompile(`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`)
	reasonFormat = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)
)

// CheckType tells why the API would not accept a type of conditions, and what to do.
func CheckType(conditionType string) error {
	switch {
	case conditionType == "":
		return fmt.Errorf("conditions: a condition needs a type, such as Ready")
	case len(conditionType) > maxType:
		return fmt.Errorf("conditions: the type %.40q... is too long (%d): use %d characters at most", conditionType, len(conditionType), maxType)
	case !typeFormat.MatchString(conditionType):
		return fmt.Errorf("conditions: the type %q is no valid name: use letters, digits, '-', '_' and '.', as in Ready or example.com/Ready", conditionType)
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
		return fmt.Errorf("conditions: %s has the status %q: use True, False or Unknown", c.Type, c.Status)
	}
	if c.ObservedGeneration < 0 {
		return fmt.Errorf("conditions: %s has a negative observedGeneration (%d): leave it out for that of the object", c.Type, c.ObservedGeneration)
	}
	return nil
}

// validReason returns a valid reason as it is, and makes one word in CamelCase of anything else.
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
	case !reasonFormat.MatchString(word): // it begins with a digit or an underscore
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

// validMessage returns what the server will store: JSON has no broken characters, and replaces them. If
// it did that for us, the message would be another one in each pass.
func validMessage(message string) string {
	message = strings.ToValidUTF8(message, "\uFFFD")
	if len(message) <= maxMessage || utf8.RuneCountInString(message) <= maxMessage {
		return message
	}
	const mark = "..."
	keep := maxMessage - len(mark)
	for i := range message {
		if keep == 0 {
			return message[:i] + mark
		}
		keep--
	}
	return message
}
