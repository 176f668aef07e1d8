package progress

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A Remote stores the progress of an object outside of it, for example in a separate object or in a database. The progress is everything
// that the configured [Store] and [Baseline] would otherwise write to the object. Only the finalizer stays there. The methods must be safe
// for concurrent use with different objects, and must return an error when the context is cancelled.
//
// Test your implementation with package storetest. kopf has no equivalent.
type Remote interface {
	// Load returns the last stored snapshot of the object, or the zero Snapshot if nothing is stored. It must not return an older snapshot,
	// so don't read from a cache. An object that was deleted and recreated has a new uid, and counts as a different object.
	Load(ctx context.Context, obj client.Object) (Snapshot, error)
	// Save replaces the stored data and returns its new version. If the stored version isn't the one in the snapshot, Save must return an
	// error that wraps [ErrConflict]. An empty version in the snapshot means that nothing may be stored yet. If the snapshot has no data,
	// Save deletes the stored data and returns an empty version.
	Save(ctx context.Context, obj client.Object, snapshot Snapshot) (version string, err error)
}

// A ConfidentialityChecker is a [Remote] that more users can read than the objects themselves.
type ConfidentialityChecker interface {
	// CheckConfidential returns an error, including what to do, if the remote must not store the progress of confidential objects, such as
	// Secrets. Even a digest of the last-handled configuration lets users guess weak passwords.
	CheckConfidential() error
}

// A Snapshot is the progress of one object in a [Remote].
type Snapshot struct {
	// Data is a JSON document. Don't depend on its content.
	Data []byte
	// Version changes whenever the data is replaced. It is empty if nothing is stored.
	Version string
}

// ErrConflict means that another client has saved the progress of the object since it was loaded.
var ErrConflict = errors.New("another client has saved the progress of the object")
