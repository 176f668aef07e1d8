package progress_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// A record in memory has the same values as after it was stored, so that the first attempt of a handler sees the same as later ones.
func TestState_RecordsDoNotDependOnStoring(t *testing.T) {
	at := time.Date(2026, 7, 25, 12, 0, 0, 123_456_789, time.FixedZone("somewhere", 7200))
	for name, outcome := range map[string]*progress.Outcome{
		"selected":        nil,
		"delayed":         {Err: errBoom, Delay: 1_234_567_891, Attempted: true},
		"succeeded":       {Final: true, Success: true, Attempted: true},
		"failed":          {Err: errBoom, Final: true, Attempted: true},
		"not valid UTF-8": {Err: errors.New("a\xff\xfeb"), Final: true, Attempted: true},
	} {
		t.Run(name, func(t *testing.T) {
			obj := configMap()
			state := loadState(t, obj, "a")
			state.Begin("create", []string{"a"}, at)
			if outcome != nil {
				state.RecordOutcome("a", *outcome, at.Add(time.Second))
			}
			inMemory := state.Record("a")
			if err := state.Save(store, obj); err != nil {
				t.Fatal(err)
			}
			// A later difference of locations or monotonic readings is also a difference.
			if stored := loadState(t, obj, "a").Record("a"); !reflect.DeepEqual(inMemory, stored) {
				t.Errorf("the record in memory is\n%#v, and stored it is\n%#v", inMemory, stored)
			}
		})
	}
}

func TestRecord_AttemptHasTheStoredPrecision(t *testing.T) {
	at := time.Now().Truncate(time.Microsecond).Add(123) // with a monotonic reading in the zero remainder
	if got, want := (progress.Record{Started: at}).Attempt().Started, at.UTC().Truncate(time.Microsecond); got != want {
		t.Errorf("Started = %#v, want %#v", got, want)
	}
	if got := (progress.Record{}).Attempt().Started; !got.IsZero() {
		t.Errorf("Started of an empty record = %s, want zero", got)
	}
}
