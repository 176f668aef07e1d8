package match_test

import (
	"strings"
	"testing"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
)

// causeOf converts facts to a cause as the engine does.
func causeOf(f cause.Facts) match.Cause {
	reason := f.DetectReason()
	return match.Cause{Reason: string(reason), Initial: cause.RunsResumeHandlers(reason, f), Deleting: f.Deleting}
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

// The names of initial causes end with an I.
func TestMatchCause(t *testing.T) {
	for _, handler := range []struct {
		name     string
		criteria match.Criteria
		want     string // the names of the causes that match
	}{
		{"HND-16 on create", on("create"), "created createdI"},
		{"HND-16 on update", on("update"), "updated updatedI"},
		{"HND-16 on delete", on("delete"), "deleted deletedI"},
		{"HND-16 on delete, optional", match.Criteria{Reasons: []string{"delete"}, Optional: true}, "deleted deletedI"},
		{"HND-18 CAUSE-23 CAUSE-25 on resume: any first cause except creation and deletion", on("resume"), "updatedI resumedI"},
		{"HND-18 CAUSE-23 on resume, even if deleted", evenIfDeleted("resume"), "updatedI deletedI resumedI"},
		{"CAUSE-24 on create and resume", on("create", "resume"), "created createdI updatedI resumedI"},
		{"CAUSE-24 on update and resume", on("update", "resume"), "updated updatedI resumedI"},
		{"HND-18 on delete and resume", on("resume", "delete"), "deleted updatedI deletedI resumedI"},
		{"HND-16 on create and update, even if deleted", evenIfDeleted("create", "update"), "created updated createdI updatedI"},
		{"HND-16 on all", on("create", "update", "delete", "resume"), "created updated deleted createdI updatedI deletedI resumedI"},
		{"HND-16 no reasons", on(), ""},
		{"HND-16 no reasons, even if deleted", evenIfDeleted(), ""},
	} {
		for word, facts := range map[string]cause.Facts{
			"created": created, "updated": updated, "deleted": deleted,
			"createdI": createdI, "updatedI": updatedI, "deletedI": deletedI, "resumedI": resumedI,
		} {
			t.Run(handler.name+"/"+word, func(t *testing.T) {
				want := strings.Contains(" "+handler.want+" ", " "+word+" ")
				refusal := handler.criteria.MatchCause(causeOf(facts), match.Input{})
				got, why := refusal.Accepts(), refusal.String()
				if got != want {
					t.Errorf("MatchCause = %t (%s), want %t", got, why, want)
				}
				if (why == "") != got {
					t.Errorf("MatchCause = %t with the explanation %q, want one only for a mismatch", got, why)
				}
			})
		}
	}
}

func on(reasons ...string) match.Criteria { return match.Criteria{Reasons: reasons} }

func evenIfDeleted(reasons ...string) match.Criteria {
	return match.Criteria{Reasons: reasons, EvenIfDeleted: true}
}

// The log explains to users why a handler does not run.
func TestMatchCause_ExplainsMismatch(t *testing.T) {
	for _, test := range []struct {
		name     string
		criteria match.Criteria
		facts    cause.Facts
		want     string
	}{
		{"HND-16 another reason", on("create"), updated, "reasons"},
		{"CAUSE-21 the object was resumed earlier", on("resume"), updated, "already"},
		{"HND-18 the object is being deleted", on("resume"), deletedI, "deleted"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if why := test.criteria.MatchCause(causeOf(test.facts), match.Input{}).String(); !strings.Contains(why, test.want) {
				t.Errorf("explanation = %q, want it to contain %q", why, test.want)
			}
		})
	}
}

func TestIsMandatoryDeleteAndIsOptionalDelete(t *testing.T) {
	for _, test := range []struct {
		name                       string
		criteria                   match.Criteria
		needsFinalizer, isOptional bool
	}{
		{"FIN-02 HND-19 a delete handler", on("delete"), true, false},
		{"FIN-02 HND-19 a handler for deletions and other reasons", on("create", "delete", "resume"), true, false},
		{"HND-19 FIN-15 B-25 an optional delete handler", match.Criteria{Reasons: []string{"delete"}, Optional: true}, false, true},
		{"FIN-02 other reasons", on("create", "update", "resume"), false, false},
		{"FIN-02 a resume handler for deleted objects", evenIfDeleted("resume"), false, false},
		{"B-25 an optional handler for another reason", match.Criteria{Reasons: []string{"create"}, Optional: true}, false, false},
		{"FIN-02 no reasons", on(), false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.criteria.IsMandatoryDelete(); got != test.needsFinalizer {
				t.Errorf("IsMandatoryDelete = %t, want %t", got, test.needsFinalizer)
			}
			if got := test.criteria.IsOptionalDelete(); got != test.isOptional {
				t.Errorf("IsOptionalDelete = %t, want %t", got, test.isOptional)
			}
		})
	}
}

func TestSelectedOnlyByResume(t *testing.T) {
	for _, test := range []struct {
		name     string
		criteria match.Criteria
		facts    cause.Facts
		want     bool
	}{
		{"CAUSE-23 a resume handler at an update", on("resume"), updatedI, true},
		{"CAUSE-23 a resume and update handler at an update", on("update", "resume"), updatedI, false},
		{"HND-18 a resume handler at a resume", on("resume"), resumedI, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.criteria.SelectedOnlyByResume(causeOf(test.facts), match.Input{}); got != test.want {
				t.Errorf("SelectedOnlyByResume = %t, want %t", got, test.want)
			}
		})
	}
}
