package match_test

import (
	"testing"

	"github.com/kopf-runtime/kopf-runtime/internal/match"
)

func BenchmarkMatch(b *testing.B) {
	criteria := match.Criteria{Reasons: []string{"create", "update", "resume"}}
	cause := match.Cause{Reason: "update", Initial: true}
	b.ReportAllocs()
	for b.Loop() {
		if refusal := criteria.MatchCause(cause, match.Input{HasCause: true}); !refusal.Accepts() {
			b.Fatal(refusal)
		}
	}
}
