// Package patch writes changes of objects to the API server as JSON merge patches, and as JSON patches where they set a field to [Null]. The engine writes handled objects only
// with this package. The removal of the labels of sharding is the only exception.
//
// The engine describes a [Change], and [Writer.Write] sends it. If the kind has the status subresource, the status
// is sent there in a separate request. Without conflicts, a change therefore takes at most two requests. A part without fields is
// not sent.
//
// If [Change.SeenGeneration] is set, the change reports whether it alone has raised the generation of the object. An [Observation] is a place in the status that
// names a generation.
//
// # Concurrent changes
//
// Each patch of an object contains its uid, so the API server rejects it for a re-created object of the same name. Patches of the status subresource also
// contain the resource version, because the API server does not check the uid there.
//
// A merge patch replaces whole lists. A patch that replaces a list, such as the finalizers, therefore contains the resource version. After a conflict,
// the writer reads the object and rebases the patch. It returns a [ListConflictError] if another client has changed the same list. Lists of
// conditions are merged by type instead.
//
// A request without a response, or with a server error, has an unknown outcome. The writer then adds the resource
// version to the repeated request. If the object has changed, the writer reads it. The framework's part then shows
// whether the first request was committed. Fields that another client has changed are not sent again, and the writer
// returns a [ConcurrentChangeError].
//
// In all other cases, the last writer of a field wins.
//
// # Errors
//
// [ErrGone], [ListConflictError] and [RejectedError] are final for a change. After a [ConcurrentChangeError], write another [Change] without the
// fields of the error. Call [Change.ResumeFrom] so that it continues the first change. Retry the change after all other errors.
package patch
