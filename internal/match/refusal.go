package match

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Refusal says why a handler is not called. The zero value means that it is called.
type Refusal struct {
	Rule Rule
	// Name is the label, annotation or dotted field path that the rule tests. It is empty for other rules.
	Name string
	// Value is the current value of the label, annotation or field, and Old the field's value before the change. They are nil if there is
	// no value.
	Value, Old any
	// Wanted describes the filter's tests. It is empty if the value only has to exist.
	Wanted string
}

// Rule is the check that a handler has failed.
type Rule int

// The rules.
const (
	NoRule         Rule = iota
	Label               // a label does not match
	Annotation          // an annotation does not match
	Owner               // the object has no owner of a wanted kind
	Field               // the field's value does not match
	When                // a When function returns false
	OtherReason         // the handler is for other reasons
	FieldUnchanged      // the field has not changed
	FieldFrom           // the field's value before the change does not match
	FieldTo             // the field's value after the change does not match
	AlreadyHandled      // a resume handler, but this process has already handled the object
	Deleting            // the object is being deleted, and the handler isn't meant for that
	OnlyConditions      // only conditions have changed
	Unrelated           // the handler compares the old and new states, which are equal
	Panicked            // a filter panicked
)

// Accepts reports whether the handler is called.
func (r Refusal) Accepts() bool { return r.Rule == NoRule }

// String explains the refusal, but leaves out values because they may be confidential. It is empty for the zero value.
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

// WithValues explains the refusal and includes the tested values.
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

// textOf returns a value as shortened JSON.
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
