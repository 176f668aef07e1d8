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
		state.SetAwaitedVersion("7", 5*time.Second)
		first := &objectstate.State[bool]{AwaitedVersion: "7", AwaitDeadline: time.Now().Add(5 * time.Second)}
		equal(t, "CONS-01 the write is awaited", &state, first)

		<-time.After(3 * time.Second)
		state.SetAwaitedVersion("8", 5*time.Second)
		equal(t, "CONS-01 CONS-08 another write replaces the version and the deadline", &state,
			&objectstate.State[bool]{AwaitedVersion: "8", AwaitDeadline: time.Now().Add(5 * time.Second)})

		<-time.After(3 * time.Second)
		state.SetAwaitedVersion("", time.Second)
		equal(t, "CONS-10 without a version, the earlier one is still awaited", &state,
			&objectstate.State[bool]{AwaitedVersion: "8", AwaitDeadline: time.Now().Add(time.Second)})
	})
}
