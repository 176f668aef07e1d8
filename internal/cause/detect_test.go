package cause_test

import (
	"fmt"
	"testing"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
)

// allFacts returns all 64 combinations of facts.
func allFacts() []cause.Facts {
	var all []cause.Facts
	for i := range 64 {
		bit := func(n int) bool { return i>>n&1 == 1 }
		all = append(all, cause.Facts{
			Gone: bit(0), Deleting: bit(1), HasFinalizer: bit(2), HasBaseline: bit(3), Changed: bit(4), Initial: bit(5),
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

// The truth table of kopf. The first matching row applies.
var table = []struct {
	row                                           string
	gone, deleting, held, known, changed, initial string
	want                                          cause.Reason
}{
	{"CAUSE-01", yes, either, either, either, either, either, cause.Gone},
	{"CAUSE-02", no, yes, no, either, either, either, cause.Free},
	{"CAUSE-03", no, yes, yes, either, either, either, cause.Delete},
	{"CAUSE-04", no, no, either, no, either, either, cause.Create},
	{"CAUSE-05", no, no, either, yes, no, yes, cause.Resume},
	{"CAUSE-06", no, no, either, yes, no, no, cause.Noop},
	{"CAUSE-07", no, no, either, yes, yes, either, cause.Update},
}

func TestDetect_TruthTable(t *testing.T) {
	seen := map[string]int{}
	for _, f := range allFacts() {
		for _, row := range table {
			if !fits(row.gone, f.Gone) || !fits(row.deleting, f.Deleting) || !fits(row.held, f.HasFinalizer) ||
				!fits(row.known, f.HasBaseline) || !fits(row.changed, f.Changed) || !fits(row.initial, f.Initial) {
				continue
			}
			seen[row.row]++
			t.Run(fmt.Sprintf("%s %+v", row.row, f), func(t *testing.T) {
				if got := f.DetectReason(); got != row.want {
					t.Errorf("Reason = %q, want %q", got, row.want)
				}
			})
			break
		}
	}
	for row, want := range map[string]int{
		"CAUSE-01": 32, "CAUSE-02": 8, "CAUSE-03": 8, "CAUSE-04": 8, "CAUSE-05": 2, "CAUSE-06": 2, "CAUSE-07": 4,
	} {
		if seen[row] != want {
			t.Errorf("%s: checked combinations = %d, want %d", row, seen[row], want)
		}
	}
}

func TestDetect_Examples(t *testing.T) {
	for _, test := range []struct {
		name  string
		facts cause.Facts
		want  cause.Reason
	}{
		{"CAUSE-04 new, in the initial list", cause.Facts{Initial: true}, cause.Create},
		{"CAUSE-14 edited while being created", cause.Facts{Changed: true}, cause.Create},
		{"CAUSE-15 edited while being updated", cause.Facts{HasBaseline: true, Changed: true, HasFinalizer: true}, cause.Update},
		{"CAUSE-17 an update that was reverted", cause.Facts{HasBaseline: true}, cause.Noop},
		{"CAUSE-17 an update that was reverted while the operator was down", cause.Facts{HasBaseline: true, Initial: true}, cause.Resume},
		{"CAUSE-18 deleted while being created", cause.Facts{Deleting: true, HasFinalizer: true}, cause.Delete},
		{"CAUSE-18 deleted while being updated", cause.Facts{Deleting: true, HasFinalizer: true, HasBaseline: true, Changed: true}, cause.Delete},
		{"CAUSE-19 first seen when deleted", cause.Facts{Deleting: true, HasFinalizer: true, Initial: true}, cause.Delete},
		{"CAUSE-23 changed while the operator was down", cause.Facts{HasBaseline: true, Changed: true, Initial: true}, cause.Update},
		{"CAUSE-28 the baseline was removed by a user", cause.Facts{HasFinalizer: true, Initial: true}, cause.Create},
		{"FIN-05 deleted before the finalizer was added", cause.Facts{Deleting: true}, cause.Free},
		{"FIN-14 deleted with finalizers of other controllers only", cause.Facts{Deleting: true, HasBaseline: true, Changed: true}, cause.Free},
		{"FIN-09 the object is gone: other facts are ignored", cause.Facts{Gone: true, Deleting: true, HasFinalizer: true, HasBaseline: true}, cause.Gone},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.facts.DetectReason(); got != test.want {
				t.Errorf("Reason = %q, want %q", got, test.want)
			}
		})
	}
}

// CAUSE-27: a change of an object during a cycle leads to another cause.
func TestSupersedings(t *testing.T) {
	creating := cause.Facts{HasFinalizer: true}
	updating := cause.Facts{HasFinalizer: true, HasBaseline: true, Changed: true}
	resuming := cause.Facts{HasFinalizer: true, HasBaseline: true, Initial: true}
	edited := func(f *cause.Facts) { f.Changed = true }
	reverted := func(f *cause.Facts) { f.Changed, f.Initial = false, true }
	deleted := func(f *cause.Facts) { f.Deleting = true }
	forgotten := func(f *cause.Facts) { f.HasBaseline = false }
	for _, test := range []struct {
		name     string
		facts    cause.Facts
		happens  func(*cause.Facts)
		from, to cause.Reason
	}{
		{"edited while resuming", resuming, edited, cause.Resume, cause.Update},
		{"deleted while being created", creating, deleted, cause.Create, cause.Delete},
		{"deleted while being updated", updating, deleted, cause.Update, cause.Delete},
		{"deleted while resuming", resuming, deleted, cause.Resume, cause.Delete},
		{"an update that was reverted while the operator was down", updating, reverted, cause.Update, cause.Resume},
		{"the baseline is removed while resuming", resuming, forgotten, cause.Resume, cause.Create},
		{"the baseline is removed while being updated", updating, forgotten, cause.Update, cause.Create},
	} {
		t.Run(test.name, func(t *testing.T) {
			facts := test.facts
			if got := facts.DetectReason(); got != test.from {
				t.Errorf("Reason before the change = %q, want %q", got, test.from)
			}
			test.happens(&facts)
			if got := facts.DetectReason(); got != test.to {
				t.Errorf("Reason after the change = %q, want %q", got, test.to)
			}
		})
	}
}

func TestHasHandlers(t *testing.T) {
	for reason, want := range map[cause.Reason]bool{
		cause.Create: true, cause.Update: true, cause.Delete: true, cause.Resume: true,
		cause.Noop: false, cause.Free: false, cause.Gone: false, "": false, "acquire": false,
	} {
		t.Run("CAUSE-10 CAUSE-13 "+string(reason), func(t *testing.T) {
			if got := reason.HasHandlers(); got != want {
				t.Errorf("HasHandlers = %t, want %t", got, want)
			}
		})
	}
}

// The engine stores the reasons in records.
func TestReasons_EqualThoseOfKopf(t *testing.T) {
	for reason, want := range map[cause.Reason]string{
		cause.Create: "create", cause.Update: "update", cause.Delete: "delete", cause.Resume: "resume",
	} {
		if string(reason) != want {
			t.Errorf("PROG-30: reason = %q, want %q", reason, want)
		}
	}
}

func TestRunsResumeHandlers(t *testing.T) {
	reasons := []cause.Reason{cause.Create, cause.Update, cause.Delete, cause.Resume}
	for _, reason := range reasons {
		for _, initial := range []bool{false, true} {
			want := initial && reason != cause.Create
			t.Run(fmt.Sprintf("CAUSE-04 CAUSE-23 %s %t", reason, initial), func(t *testing.T) {
				if got := cause.RunsResumeHandlers(reason, cause.Facts{Initial: initial}); got != want {
					t.Errorf("RunsResumeHandlers = %t, want %t", got, want)
				}
			})
		}
	}
}
