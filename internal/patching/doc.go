// Package patching writes to the API server: who calls the API? This package does, and no other of
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
// the very list. Lists of conditions are maps by type: each writer's own are merged with what others have made of theirs.
//
// # Assumptions
//
// The fields of the framework's part are written by nobody else.
//
// # Caveats
//
// A merge patch replaces whole lists, and the last writer of a single field wins.
//
// # Errors
//
// [ErrGone], [ContestedError] and [RejectedError] are final for the change; all others may pass.
package patching
