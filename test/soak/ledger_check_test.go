package soak

import (
	"strings"
	"testing"
	"time"
)

func TestLedger(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	created := due{Object: "ns/one", Handler: "create", Input: "1"}
	for name, test := range map[string]struct {
		prepare func(*ledger)
		want    string // part of the only violation; empty: none
	}{
		"called once":  {func(l *ledger) { l.record(created, 1, at(0)); l.expect(created) }, ""},
		"not called":   {func(l *ledger) { l.expect(created) }, "was not called"},
		"called twice": {func(l *ledger) { l.record(created, 1, at(0)); l.record(created, 1, at(1)); l.expect(created) }, "called 2 times"},
		"repeated after the process was killed": {func(l *ledger) {
			l.record(created, 1, at(0))
			l.interrupt(at(1), at(2))
			l.record(created, 2, at(5))
			l.expect(created)
		}, ""},
		"repeated long after a process was killed": {func(l *ledger) {
			l.interrupt(at(1), at(2))
			l.record(created, 1, at(100))
			l.record(created, 2, at(105))
			l.expect(created)
		}, "called 2 times"},
		"called without being due": {func(l *ledger) { l.record(created, 1, at(0)); l.unexpected() }, "not due"},
		"called for an older input after a suspension": {func(l *ledger) {
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
