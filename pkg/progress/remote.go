package progress

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A Remote stores the progress of an object outside of the object, for example in another object or in a database. The progress is all data that the
// configured [Store] and [Baseline] would otherwise write to the object. The finalizer stays on the object. The methods must be safe for concurrent use
// for different objects, and must return an error when the context ends.
//
// The package storetest checks implementations. kopf has no equivalent.
type Remote interface {
	// Load returns the last stored snapshot of the object, or the zero Snapshot if nothing is stored. It must not return an older snapshot, so it must not
	// read from a cache. An object that was deleted and re-created has another uid, and is another object.
	Load(ctx context.Context, obj client.Object) (Snapshot, error)
	// Save replaces the stored data, and returns the new version. It returns an error that wraps [ErrConflict] if the stored version differs from the version of the snapshot.
	// A snapshot with an empty version requires that nothing is stored. If the snapshot has no data, Save deletes the stored data and returns an empty version.
	Save(ctx context.Context, obj client.Object, snapshot Snapshot) (version string, err error)
}

// A ConfidentialityChecker is a [Remote] that may be readable for more users than the objects.
type ConfidentialityChecker interface {
	// CheckConfidential returns an error that describes what to do if the remote must not contain the progress of confidential objects, such as Secrets. Even a
	// digest of the last-handled configuration lets users guess weak passwords.
	CheckConfidential() error
}

// A Snapshot is the progress of one object in a [Remote].
type Snapshot struct {
	// Data is a JSON document. Do not depend on its content.
	Data []byte
	// Version changes whenever the data is replaced. It is empty if nothing is stored.
	Version string
}

// ErrConflict means that another client has saved the progress of the object since it was loaded.
var ErrConflict = errors.New("another client has saved the progress of the object")
