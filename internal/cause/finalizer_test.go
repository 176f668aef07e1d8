package cause_test

import (
	"testing"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
)

func TestDecideFinalizer(t *testing.T) {
	for _, row := range []struct {
		name                         string
		gone, needed, held, deleting string
		want                         cause.FinalizerAction
	}{
		{"FIN-09 the object does not exist: kept", yes, either, either, either, cause.KeepFinalizer},
		{"FIN-03 needed, absent, not being deleted: added", no, yes, no, no, cause.AddFinalizer},
		{"FIN-04 not needed, present, not being deleted: removed", no, no, yes, no, cause.RemoveFinalizer},
		{"FIN-04 not needed, present, being deleted: removed", no, no, yes, yes, cause.RemoveFinalizer},
		{"FIN-05 needed, absent, being deleted: not added", no, yes, no, yes, cause.KeepFinalizer},
		{"FIN-06 needed, present, being deleted: kept for the handlers", no, yes, yes, yes, cause.KeepFinalizer},
		{"FIN-03 needed, present: kept", no, yes, yes, no, cause.KeepFinalizer},
		{"FIN-02 not needed, absent: nothing to do", no, no, no, either, cause.KeepFinalizer},
	} {
		t.Run(row.name, func(t *testing.T) {
			checked := 0
			for _, facts := range allFacts() {
				for _, needed := range []bool{false, true} {
					if !fits(row.gone, facts.Gone) || !fits(row.needed, needed) || !fits(row.held, facts.HasFinalizer) || !fits(row.deleting, facts.Deleting) {
						continue
					}
					checked++
					if got := cause.DecideFinalizer(facts, needed); got != row.want {
						t.Errorf("DecideFinalizer(%+v, %t) = %q, want %q", facts, needed, got, row.want)
					}
				}
			}
			if checked == 0 {
				t.Error("no facts match the row")
			}
		})
	}
}

// DecideFinalizer keeps the finalizer as it is after each addition or removal.
func TestDecideFinalizer_IsStable(t *testing.T) {
	for _, facts := range allFacts() {
		for _, needed := range []bool{false, true} {
			after := facts
			switch cause.DecideFinalizer(facts, needed) {
			case cause.AddFinalizer:
				after.HasFinalizer = true
			case cause.RemoveFinalizer:
				after.HasFinalizer = false
			default:
				continue
			}
			if got := cause.DecideFinalizer(after, needed); got != cause.KeepFinalizer {
				t.Errorf("FIN-03 FIN-04: DecideFinalizer(%+v, %t) = %q after the action, want no action", after, needed, got)
			}
		}
	}
}
