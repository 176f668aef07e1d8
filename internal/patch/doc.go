// Package patch writes changes of objects to the API server as JSON merge patches, or as JSON patches where they set a field to [Null]. All
// the engine's writes to handled objects go through it, except for removing sharding labels.
//
// The engine describes a [Change], and [Writer.Write] sends it. If the kind has the status subresource, the status is sent there in a
// separate request, so a change takes at most two requests unless there are conflicts. Parts without fields are not sent.
//
// With [Change.SeenGeneration], the change reports whether it alone has raised the object's generation. An [Observation] is a place in the
// status that names a generation.
//
// # Concurrent changes
//
// Each patch of an object contains its uid, so the API server rejects it if the object has been re-created under the same name. For the
// status subresource, the API server doesn't check the uid, so these patches contain the resource version as well.
//
// A merge patch replaces whole lists, so a patch that replaces one, such as the finalizers, contains the resource version. After a
// conflict, the writer reads the object and rebases the patch. If another client has changed the same list, the result is a
// [ListConflictError], except that lists of conditions are merged by type.
//
// A request without a response, or with a server error, may or may not have been committed. The writer therefore retries it with the
// resource version. If the object has changed, the writer reads it, and the framework's part shows whether the first request was committed.
// Fields that another client has changed are not sent again; the writer returns a [ConcurrentChangeError] instead.
//
// In all other cases, the last writer of a field wins.
//
// # Errors
//
// [ErrGone], [ListConflictError] and [RejectedError] are final for a change. After a [ConcurrentChangeError], write a new [Change] without
// the fields in the error, and call [Change.ResumeFrom] to make it continue the first one. After any other error, retry the change.
package patch
