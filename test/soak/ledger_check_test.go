package soak

import (
	"strings"
	"testing"
	"time"
)

func TestLedger_FindsViolations(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	created := due{Object: "ns/one", Handler: "create", Input: "1"}
	for name, test := range map[string]struct {
		prepare func(*ledger)
		want    string // part of the only violation; empty: none
	}{
		"a call for a cause is no violation": {func(l *ledger) { l.record(created, 1, at(0)); l.expect(created) }, ""},
		"a missing call is a violation":      {func(l *ledger) { l.expect(created) }, "was not called"},
		"a second call is a violation":       {func(l *ledger) { l.record(created, 1, at(0)); l.record(created, 1, at(1)); l.expect(created) }, "called 2 times"},
		"a repeated call after the process was killed is no violation": {func(l *ledger) {
			l.record(created, 1, at(0))
			l.interrupt(at(1), at(2))
			l.record(created, 2, at(5))
			l.expect(created)
		}, ""},
		"a repeated call long after a process was killed is a violation": {func(l *ledger) {
			l.interrupt(at(1), at(2))
			l.record(created, 1, at(100))
			l.record(created, 2, at(105))
			l.expect(created)
		}, "called 2 times"},
		"a call that is not due is a violation": {func(l *ledger) { l.record(created, 1, at(0)); l.unexpected() }, "not due"},
		"a call for an older input after a suspension is no violation": {func(l *ledger) {
			l.interrupt(at(0), at(9))
			l.record(created, 1, at(10))
			l.unexpected()
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger()
			test.prepare(l)
			_, _, _, _, violations := l.figures()
			if test.want == "" && len(violations) > 0 || test.want != "" && (len(violations) != 1 || !strings.Contains(violations[0], test.want)) {
				t.Errorf("violations %q, want %q", violations, test.want)
			}
		})
	}
}
