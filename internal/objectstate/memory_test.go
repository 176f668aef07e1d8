package objectstate_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
)

func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var memory objectstate.Memory
		memory.Await("7", 5*time.Second)
		first := objectstate.Memory{Written: "7", Deadline: time.Now().Add(5 * time.Second)}
		equal(t, "CONS-01 a write is awaited", memory, first)

		<-time.After(3 * time.Second)
		memory.Await("8", 5*time.Second)
		equal(t, "CONS-01 CONS-08 another write restarts both", memory,
			objectstate.Memory{Written: "8", Deadline: time.Now().Add(5 * time.Second)})

		<-time.After(3 * time.Second)
		memory.Await("", time.Second)
		equal(t, "CONS-10 without a version, the former one is still awaited", memory,
			objectstate.Memory{Written: "8", Deadline: time.Now().Add(time.Second)})
	})
}
