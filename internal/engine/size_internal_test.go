package engine

import (
	"testing"
	"unsafe"
)

// The engine has a state for each object, so each field costs memory for all objects of the cluster. 128 bytes is a size class of the allocator: a larger state
// would take at least 144 bytes. Put data that only few objects have behind a pointer, or into a map.
func TestObjectState_Size(t *testing.T) {
	const limit = 128
	if size := unsafe.Sizeof(objectState{}); size > limit {
		t.Errorf("the state of an object has %d bytes, want at most %d", size, limit)
	}
}
