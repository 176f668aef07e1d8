package causation_test

import (
	"fmt"
	"testing"

	"github.com/kopf-runtime/kopf-runtime/internal/causation"
)

// allFacts are all 64 combinations.
func allFacts() []causation.Facts {
	var all []causation.Facts
	for i := range 64 {
		bit := func(n int) bool { return i>>n&1 == 1 }
		all = append(all, causation.Facts{
			Gone: bit(0), Deleting: bit(1), Held: bit(2), Known: bit(3), Changed: bit(4), Initial: bit(5),
		})
	}
	return all
}

const (
	no     = "no"
	yes    = "yes"
	either = "either"
)

func fits(word string, fact bool) bool { return word == either || (word == yes) == fact }

// The truth table of kopf: the first row that fits counts.
var table = []struct {
	row                                           string
	gone, deleting, held, known, changed, initial string
	want                                          causation.Reason
}{
	{"CAUSE-01", yes, either, either, either, either, either, causation.Gone},
	{"CAUSE-02", no, yes, no, either, either, either, causation.Free},
	{"CAUSE-03", no, yes, yes, either, either, either, causation.Delete},
	{"CAUSE-04", no, no, either, no, either, either, causation.Create},
	{"CAUSE-05", no, no, either, yes, no, yes, causation.Resume},
	{"CAUSE-06", no, no, either, yes, no, no, causation.Noop},
	{"CAUSE-07", no, no, either, yes, yes, either, causation.Update},
}

func TestDetectIsTheTable(t *testing.T) {
	seen := map[string]int{}
	for _, f := range allFacts() {
		for _, row := range table {
			if !fits(row.gone, f.Gone) || !fits(row.deleting, f.Deleting) || !fits(row.held, f.Held) ||
				!fits(row.known, f.Known) || !fits(row.changed, f.Changed) || !fits(row.initial, f.Initial) {
				continue
			}
			seen[row.row]++
			t.Run(fmt.Sprintf("%s %+v", row.row, f), func(t *testing.T) {
				if got := causation.Detect(f); got != row.want {
					t.Errorf("Detect = %q, want %q", got, row.want)
				}
			})
			break
		}
	}
	for row, want := range map[string]int{
		"CAUSE-01": 32, "CAUSE-02": 8, "CAUSE-03": 8, "CAUSE-04": 8, "CAUSE-05": 2, "CAUSE-06": 2, "CAUSE-07": 4,
	} {
		if seen[row] != want {
			t.Errorf("%s: %d combinations were checked, want %d", row, seen[row], want)
		}
	}
}

func TestDetectInWords(t *testing.T) {
	for _, test := range []struct {
		name  string
		facts causation.Facts
		want  causation.Reason
	}{
		{"CAUSE-04 new, seen in a listing", causation.Facts{Initial: true}, causation.Create},
		{"CAUSE-14 edited while being created: no update", causation.Facts{Changed: true}, causation.Create},
		{"CAUSE-15 edited while being updated", causation.Facts{Known: true, Changed: true, Held: true}, causation.Update},
		{"CAUSE-17 an update that was reverted", causation.Facts{Known: true}, causation.Noop},
		{"CAUSE-17 an update that was reverted while nobody looked", causation.Facts{Known: true, Initial: true}, causation.Resume},
		{"CAUSE-18 deleted while being created", causation.Facts{Deleting: true, Held: true}, causation.Delete},
		{"CAUSE-18 deleted while being updated", causation.Facts{Deleting: true, Held: true, Known: true, Changed: true}, causation.Delete},
		{"CAUSE-19 first seen when deleted", causation.Facts{Deleting: true, Held: true, Initial: true}, causation.Delete},
		{"CAUSE-23 changed while nobody looked", causation.Facts{Known: true, Changed: true, Initial: true}, causation.Update},
		{"CAUSE-28 the baseline was taken off by hand", causation.Facts{Held: true, Initial: true}, causation.Create},
		{"FIN-05 deleted before we could hold it", causation.Facts{Deleting: true}, causation.Free},
		{"FIN-14 held by others only", causation.Facts{Deleting: true, Known: true, Changed: true}, causation.Free},
		{"FIN-09 gone, whatever it has", causation.Facts{Gone: true, Deleting: true, Held: true, Known: true}, causation.Gone},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := causation.Detect(test.facts); got != test.want {
				t.Errorf("Detect = %q, want %q", got, test.want)
			}
		})
	}
}

// CAUSE-27: the causes that can follow an unfinished one, with what has happened in between.
func TestSupersedings(t *testing.T) {
	creating := causation.Facts{Held: true}
	updating := causation.Facts{Held: true, Known: true, Changed: true}
	resuming := causation.Facts{Held: true, Known: true, Initial: true}
	edited := func(f *causation.Facts) { f.Changed = true }
	reverted := func(f *causation.Facts) { f.Changed, f.Initial = false, true }
	deleted := func(f *causation.Facts) { f.Deleting = true }
	forgotten := func(f *causation.Facts) { f.Known = false }
	for _, test := range []struct {
		name     string
		facts    causation.Facts
		happens  func(*causation.Facts)
		from, to causation.Reason
	}{
		{"edited while resuming", resuming, edited, causation.Resume, causation.Update},
		{"deleted while being created", creating, deleted, causation.Create, causation.Delete},
		{"deleted while being updated", updating, deleted, causation.Update, causation.Delete},
		{"deleted while resuming", resuming, deleted, causation.Resume, causation.Delete},
		{"an update that was reverted while the operator was down", updating, reverted, causation.Update, causation.Resume},
		{"the baseline is taken off while resuming", resuming, forgotten, causation.Resume, causation.Create},
		{"the baseline is taken off while being updated", updating, forgotten, causation.Update, causation.Create},
	} {
		t.Run(test.name, func(t *testing.T) {
			facts := test.facts
			if got := causation.Detect(facts); got != test.from {
				t.Errorf("Detect = %q before, want %q", got, test.from)
			}
			test.happens(&facts)
			if got := causation.Detect(facts); got != test.to {
				t.Errorf("Detect = %q afterwards, want %q", got, test.to)
			}
		})
	}
}

func TestHandled(t *testing.T) {
	for reason, want := range map[causation.Reason]bool{
		causation.Create: true, causation.Update: true, causation.Delete: true, causation.Resume: true,
		causation.Noop: false, causation.Free: false, causation.Gone: false, "": false, "acquire": false,
	} {
		t.Run("CAUSE-10 CAUSE-13 "+string(reason), func(t *testing.T) {
			if got := reason.Handled(); got != want {
				t.Errorf("Handled = %t, want %t", got, want)
			}
		})
	}
}

// The words are stored on objects.
func TestReasonsAreThoseOfKopf(t *testing.T) {
	for reason, want := range map[causation.Reason]string{
		causation.Create: "create", causation.Update: "update", causation.Delete: "delete", causation.Resume: "resume",
	} {
		if string(reason) != want {
			t.Errorf("PROG-30: the purpose is %q, want %q", reason, want)
		}
	}
}

func TestInitial(t *testing.T) {
	reasons := []causation.Reason{causation.Create, causation.Update, causation.Delete, causation.Resume}
	for _, reason := range reasons {
		for _, initial := range []bool{false, true} {
			want := initial && reason != causation.Create
			t.Run(fmt.Sprintf("CAUSE-04 CAUSE-23 %s %t", reason, initial), func(t *testing.T) {
				if got := causation.Initial(reason, causation.Facts{Initial: initial}); got != want {
					t.Errorf("Initial = %t, want %t", got, want)
				}
			})
		}
	}
}
