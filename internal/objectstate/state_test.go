package objectstate_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
)

func TestSetAwaitedVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var state objectstate.State[bool]
		expect := func(what, version string, deadline time.Time) {
			t.Helper()
			equal(t, what+": version", state.AwaitedVersion(), version)
			equal(t, what+": deadline", state.AwaitDeadline(), deadline)
		}
		expect("no write", "", time.Time{})
		state.SetAwaitedVersion("7", 5*time.Second)
		expect("CONS-01 the write is awaited", "7", time.Now().Add(5*time.Second))

		<-time.After(3 * time.Second)
		state.SetAwaitedVersion("8", 5*time.Second)
		expect("CONS-01 CONS-08 another write replaces the version and the deadline", "8", time.Now().Add(5*time.Second))

		<-time.After(3 * time.Second)
		state.SetAwaitedVersion("", time.Second)
		expect("CONS-10 without a version, the earlier one is still awaited", "8", time.Now().Add(time.Second))

		state.StopAwaiting()
		expect("CONS-10 the cache contains the write", "", time.Time{})
	})
}
