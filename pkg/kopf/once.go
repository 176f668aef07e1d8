package kopf

import (
	"fmt"
	"reflect"
	"time"
)

// A onceOnly remembers the options that were given, to report one that is given again with another value.
type onceOnly map[string]any

// again returns an error if the option was given before with another value: the one that comes last would silently win.
func (o *onceOnly) again(option string, value any) error {
	if *o == nil {
		*o = onceOnly{}
	}
	before, given := (*o)[option]
	if !given {
		(*o)[option] = value
		return nil
	}
	if reflect.DeepEqual(before, value) {
		return nil
	}
	switch value.(type) {
	case time.Duration, int, float64, string, bool:
		return fmt.Errorf("%s is given twice, with %v and %v: leave one out", option, before, value)
	default:
		return fmt.Errorf("%s is given twice, with different values: leave one out", option)
	}
}
