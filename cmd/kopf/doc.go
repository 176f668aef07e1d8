// Command kopf is for people: it shows which operators know of each other, freezes and resumes them; and it shows what an
// operator has left on its objects, and takes it off.
//
//	go run github.com/kopf-runtime/kopf-runtime/cmd/kopf peers list
//	go run github.com/kopf-runtime/kopf-runtime/cmd/kopf objects list databases.example.com -A
//	go run github.com/kopf-runtime/kopf-runtime/cmd/kopf objects release databases.example.com -A --yes
//
// Built under the name kubectl-kopf, in a folder of the PATH, it is a plugin: kubectl kopf peers list.
//
// # Flow
//
// The cluster is found as kubectl finds it. Flags that are not given are taken from kopf's variables, such as KOPF_FREEZE_PRIORITY. The
// commands read or patch the peering objects, or the objects of one kind, once, and end.
//
// # Guarantees
//
// Of peers, only the record of the identity that is given, or of the user, is written or removed. "objects list" writes nothing.
// "objects release" writes nothing without --yes, and takes off nothing but the finalizer and the annotations that it has named.
//
// # Assumptions
//
// The objects exist: operators would not look at those that are created in the meantime.
//
// # Caveats
//
// Whether a peer is alive, and whether a handler is due, is judged by the clock of this machine; operators have better means.
//
// "objects list" does not know the code of the operator: it compares the whole object, as operators of unstructured kinds do, and what
// handlers are there it has to be told. Records and baselines that are kept in the status are not released.
//
// # Errors
//
// They say what to do, on the standard error; the exit code is 1 then.
package main
