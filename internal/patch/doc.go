// Package patch writes to the API server: who calls the API? This package does, and no other of
// the engine's rooms.
//
// # Flow
//
// The engine describes a [Change]; [Writer.Write] makes merge patches of it, one for the status
// subresource if there is one and something to write in it, one for all else, and sends them.
//
// # Guarantees
//
// Equal documents are not sent. An object that was created again under the same name is not touched:
// patches of the object name its uid, patches of the status, where the server does not look at the
// uid, its version. Patches that replace lists, the finalizers among them, name the version they were
// made for; after a conflict they are made again for the new one, unless somebody else has changed
// the very list. After a request with an unknown outcome (no answer, or a fault of the server), the change is sent again with the version
// it was made for. If the object has another version by then, it is read: the framework's part shows whether the change was committed, and
// fields that another client has changed are not sent again. Lists of conditions are maps by type: each writer's own are merged with what others have made of theirs.
//
// # Assumptions
//
// The fields of the framework's part are written by nobody else.
//
// # Caveats
//
// A merge patch replaces whole lists, and the last writer of a single field wins, unless the outcome of an earlier request is unknown.
//
// # Errors
//
// [ErrGone], [ContestedError] and [RejectedError] are final for the change. After a [ConcurrentChangeError], the change can be written without the
// fields that it names: make another [Change] and let it [Change.Continue] the first one. All other errors may pass.
package patch
