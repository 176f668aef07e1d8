package match

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Refusal is the reason why a handler is not called. The zero value means that the handler is called.
type Refusal struct {
	Rule Rule
	// Name is the label, the annotation or the dotted path of the field that the rule tests. For other rules, it is empty.
	Name string
	// Value is the present value of the label, the annotation or the field, and Old the value of the field before the change. They are nil if there is no value.
	Value, Old any
	// Wanted describes the tests of the filter. It is empty if the value must only exist.
	Wanted string
}

// Rule is a rule that can refuse the call of a handler.
type Rule int

// The rules.
const (
	NoRule         Rule = iota
	Label               // a label does not match
	Annotation          // an annotation does not match
	Owner               // the object has no owner of a wanted kind
	Field               // the value of the field does not match
	When                // a When function returns false
	OtherReason         // the handler is for other reasons
	FieldUnchanged      // the field has not changed
	FieldFrom           // the field had another value before the change
	FieldTo             // the field has another value after the change
	AlreadyHandled      // a resume handler: this process has handled the object
	Deleting            // the object is being deleted, and the handler is not for that
	OnlyConditions      // only conditions have changed
	Unrelated           // the handler compares old and new states, and finds them equal
	Panicked            // a filter panicked
)

// Accepts reports whether the handler is called.
func (r Refusal) Accepts() bool { return r.Rule == NoRule }

// String explains the refusal without values, which may be confidential. For the zero value, it is empty.
func (r Refusal) String() string {
	switch r.Rule {
	case NoRule:
		return ""
	case Label:
		return fmt.Sprintf("metadata.labels[%q] does not match", r.Name)
	case Annotation:
		return fmt.Sprintf("metadata.annotations[%q] does not match", r.Name)
	case Field:
		return "the field " + r.Name + " does not match"
	case FieldUnchanged:
		return "the field " + r.Name + " has not changed"
	case FieldFrom:
		return "the field " + r.Name + " has changed from another value than wanted"
	case FieldTo:
		return "the field " + r.Name + " has changed to another value than wanted"
	default:
		return texts[r.Rule]
	}
}

var texts = map[Rule]string{
	Owner:          "the object has no owner of the wanted kind",
	When:           "the When function of the handler returned false",
	OtherReason:    "the handler is for other reasons",
	AlreadyHandled: "this process has already handled the object",
	Deleting:       "the object is being deleted",
	OnlyConditions: "only conditions have changed, and the handler is not for conditions",
	Unrelated:      "the fields that the filters select have not changed",
	Panicked:       "a filter of the handler panicked",
}

// WithValues explains the refusal with the values that the rule tests.
func (r Refusal) WithValues() string {
	text := r.String()
	switch r.Rule {
	case Label, Annotation, Field, FieldTo:
		text += ": " + textOf(r.Value)
	case FieldUnchanged:
		return text + ": " + textOf(r.Value)
	case FieldFrom:
		text += ": " + textOf(r.Old)
	default:
		return text
	}
	if r.Wanted != "" {
		text += ", wanted " + r.Wanted
	}
	return text
}

const maxValue = 100 // bytes

// textOf returns the JSON form of a value, shortened.
func textOf(value any) string {
	if value == nil {
		return "there is no value"
	}
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprintf("a value of the type %T", value)
	}
	if len(text) > maxValue {
		return strings.ToValidUTF8(string(text[:maxValue]), "") + "…"
	}
	return string(text)
}
