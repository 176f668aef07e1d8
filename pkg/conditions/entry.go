package conditions

import (
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An entry is a condition stored as a struct with the usual JSON names. Only the status field is required.
type entry struct{ reflect.Value }

var (
	timeType    = reflect.TypeFor[metav1.Time]()
	timePointer = reflect.TypeFor[*metav1.Time]()
)

func (e entry) read() metav1.Condition {
	return metav1.Condition{
		Type:               e.text("type"),
		Status:             metav1.ConditionStatus(e.text("status")),
		ObservedGeneration: e.number("observedGeneration"),
		LastTransitionTime: e.time("lastTransitionTime"),
		Reason:             e.text("reason"),
		Message:            e.text("message"),
	}
}

func (e entry) write(c metav1.Condition) {
	for name, text := range map[string]string{"type": c.Type, "status": string(c.Status), "reason": c.Reason, "message": c.Message} {
		if v := e.field(name); v.Kind() == reflect.String {
			v.SetString(text)
		}
	}
	if v := e.field("observedGeneration"); v.Kind() == reflect.Int64 {
		v.SetInt(c.ObservedGeneration)
	}
	e.setTime("lastTransitionTime", c.LastTransitionTime)
	e.setTime("lastUpdateTime", metav1.NewTime(time.Now().UTC().Truncate(time.Second)))
}

// field returns an invalid value if the struct has no such field.
func (e entry) field(name string) reflect.Value {
	index := indexOf(e.Type(), name)
	if index == nil {
		return reflect.Value{}
	}
	return e.FieldByIndex(index)
}

func (e entry) text(name string) string {
	if v := e.field(name); v.Kind() == reflect.String {
		return v.String()
	}
	return ""
}

func (e entry) number(name string) int64 {
	if v := e.field(name); v.Kind() == reflect.Int64 {
		return v.Int()
	}
	return 0
}

func (e entry) time(name string) metav1.Time {
	switch v := e.field(name); {
	case !v.IsValid():
	case v.Type() == timeType:
		return v.Interface().(metav1.Time)
	case v.Type() == timePointer && !v.IsNil():
		return *v.Interface().(*metav1.Time)
	}
	return metav1.Time{}
}

func (e entry) setTime(name string, value metav1.Time) {
	switch v := e.field(name); {
	case !v.IsValid():
	case v.Type() == timeType:
		v.Set(reflect.ValueOf(value))
	case v.Type() == timePointer:
		v.Set(reflect.ValueOf(&value))
	}
}
