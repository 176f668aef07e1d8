package match_test

import (
	"strings"
	"testing"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
)

// situation is how the engine comes from facts to what handlers are selected by.
func situation(f cause.Facts) match.Cause {
	reason := cause.Detect(f)
	return match.Cause{Reason: string(reason), Initial: cause.IsInitial(reason, f), Deleting: f.Deleting}
}

var (
	created  = cause.Facts{}
	updated  = cause.Facts{HasBaseline: true, Changed: true}
	deleted  = cause.Facts{HasBaseline: true, Deleting: true, HasFinalizer: true}
	createdI = cause.Facts{Initial: true}
	updatedI = cause.Facts{HasBaseline: true, Changed: true, Initial: true}
	deletedI = cause.Facts{HasBaseline: true, Deleting: true, HasFinalizer: true, Initial: true}
	resumedI = cause.Facts{HasBaseline: true, Initial: true}
)

// Which handler is called for which facts; those with an I are seen for the first time in the process.
func TestMatch(t *testing.T) {
	for _, handler := range []struct {
		name     string
		criteria match.Criteria
		want     string // the words below, for which it is called
	}{
		{"HND-16 on create", on("create"), "created createdI"},
		{"HND-16 on update", on("update"), "updated updatedI"},
		{"HND-16 on delete", on("delete"), "deleted deletedI"},
		{"HND-16 on delete, optional", match.Criteria{Reasons: []string{"delete"}, Optional: true}, "deleted deletedI"},
		{"HND-18 CAUSE-23 CAUSE-25 on resume: any first cause but creation and deletion", on("resume"), "updatedI resumedI"},
		{"HND-18 CAUSE-23 on resume, even if deleted", evenIfDeleted("resume"), "updatedI deletedI resumedI"},
		{"CAUSE-24 on create and resume", on("create", "resume"), "created createdI updatedI resumedI"},
		{"CAUSE-24 on update and resume", on("update", "resume"), "updated updatedI resumedI"},
		{"HND-18 on delete and resume", on("resume", "delete"), "deleted updatedI deletedI resumedI"},
		{"HND-16 on create and update, even if deleted", evenIfDeleted("create", "update"), "created updated createdI updatedI"},
		{"HND-16 on all", on("create", "update", "delete", "resume"), "created updated deleted createdI updatedI deletedI resumedI"},
		{"HND-16 on nothing", on(), ""},
		{"HND-16 on nothing, even if deleted", evenIfDeleted(), ""},
	} {
		for word, facts := range map[string]cause.Facts{
			"created": created, "updated": updated, "deleted": deleted,
			"createdI": createdI, "updatedI": updatedI, "deletedI": deletedI, "resumedI": resumedI,
		} {
			t.Run(handler.name+"/"+word, func(t *testing.T) {
				want := strings.Contains(" "+handler.want+" ", " "+word+" ")
				got, why := handler.criteria.Match(situation(facts), match.Input{})
				if got != want {
					t.Errorf("Match = %t (%s), want %t", got, why, want)
				}
				if (why == "") != got {
					t.Errorf("Match = %t, but the reason is %q", got, why)
				}
			})
		}
	}
}

func on(reasons ...string) match.Criteria { return match.Criteria{Reasons: reasons} }

func evenIfDeleted(reasons ...string) match.Criteria {
	return match.Criteria{Reasons: reasons, EvenIfDeleted: true}
}

// The refusals are logged for people who ask why their handler did not run.
func TestRefusalsSayWhy(t *testing.T) {
	for _, test := range []struct {
		name     string
		criteria match.Criteria
		facts    cause.Facts
		want     string
	}{
		{"HND-16 another reason", on("create"), updated, "reasons"},
		{"CAUSE-21 handled already", on("resume"), updated, "already"},
		{"HND-18 being deleted", on("resume"), deletedI, "deleted"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, why := test.criteria.Match(situation(test.facts), match.Input{}); !strings.Contains(why, test.want) {
				t.Errorf("the reason is %q, want something with %q", why, test.want)
			}
		})
	}
}

func TestHoldsAndFarewell(t *testing.T) {
	for _, test := range []struct {
		name            string
		criteria        match.Criteria
		holds, farewell bool
	}{
		{"FIN-02 HND-19 a delete handler holds", on("delete"), true, false},
		{"FIN-02 HND-19 also among other reasons", on("create", "delete", "resume"), true, false},
		{"HND-19 FIN-15 B-25 an optional one does not, but is called", match.Criteria{Reasons: []string{"delete"}, Optional: true}, false, true},
		{"FIN-02 others do not", on("create", "update", "resume"), false, false},
		{"FIN-02 others do not, being called for deleted objects", evenIfDeleted("resume"), false, false},
		{"B-25 optional is said of deletions alone", match.Criteria{Reasons: []string{"create"}, Optional: true}, false, false},
		{"FIN-02 none", on(), false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.criteria.NeedsFinalizer(); got != test.holds {
				t.Errorf("Holds = %t, want %t", got, test.holds)
			}
			if got := test.criteria.IsOptionalDelete(); got != test.farewell {
				t.Errorf("Farewell = %t, want %t", got, test.farewell)
			}
		})
	}
}

func TestJoins(t *testing.T) {
	for _, test := range []struct {
		name     string
		criteria match.Criteria
		facts    cause.Facts
		want     bool
	}{
		{"CAUSE-23 a resume handler joins an update", on("resume"), updatedI, true},
		{"CAUSE-23 one that wants updates itself does not", on("update", "resume"), updatedI, false},
		{"HND-18 nobody joins a resumption", on("resume"), resumedI, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.criteria.MatchesOnlyAsResume(situation(test.facts), match.Input{}); got != test.want {
				t.Errorf("Joins = %t, want %t", got, test.want)
			}
		})
	}
}
