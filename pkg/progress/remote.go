package progress

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A Remote keeps the progress of objects outside of them, for example in another object or in a database: all that the configured [Store] and
// [Baseline] would write to the object. The finalizer stays on the object. The methods must be safe for concurrent use for different objects, and
// respect the end of the context.
//
// The package storetest checks implementations. kopf has no equivalent.
type Remote interface {
	// Load returns what Save has stored last for the object; the zero Snapshot if nothing is stored. It must not return an older state, so it must not
	// read from a cache. An object that was deleted and re-created has another uid, and is another object.
	Load(ctx context.Context, obj client.Object) (Snapshot, error)
	// Save replaces the stored data, and returns the new version. It returns ErrConflict if the stored version is not the version of the snapshot,
	// which is empty if nothing is stored. Without data, Save deletes what is stored.
	Save(ctx context.Context, obj client.Object, snapshot Snapshot) (version string, err error)
}

// A Snapshot is the progress of one object in a [Remote].
type Snapshot struct {
	// Data is a JSON document. The form is internal.
	Data []byte
	// Version changes whenever the data is replaced. It is empty if nothing is stored.
	Version string
}

// ErrConflict means that another client has saved the progress of the object in the meantime.
var ErrConflict = errors.New("another client has saved the progress of the object")
