// Package apiserver plays a Kubernetes API server in memory, behind an [http.RoundTripper]: no network, no
// goroutines, so that whole operators run on it inside a testing/synctest bubble, in virtual time.
//
//	server := apiserver.New(append(apiserver.FromScheme(scheme), apiserver.FromCRDs(crds...)...)...)
//	if err := server.Add(objects...); err != nil {
//		return err // says which of them cannot be
//	}
//	config := &rest.Config{Host: "http://in-memory", Transport: server, QPS: -1}
//
// # Flow
//
// A request is read, routed, and answered under one lock. Each write counts the version up and appends an event;
// a watch is a body that reads on in the list of events, and waits for more.
//
// A [Replica] is another API server on the same store, whose cache for reads may lag behind.
//
// # Guarantees
//
// What operators rely on, as test/simulation/conformance compares it with a real server: discovery; list and watch with
// label selectors and the fields metadata.name and metadata.namespace (an object that leaves the selection is told as
// deleted), with the listing at the beginning of a watch and a bookmark for its end; get, create, update, delete,
// deletion of collections; generated names; JSON patch, merge patch, strategic merge patch of built-in kinds,
// server-side apply with conflicts; the status subresource; dry runs; resourceVersion and uid as preconditions;
// deletion that waits for finalizers; validation of metadata; generations; writes that change nothing make no event;
// objects by their metadata alone; for custom kinds of FromCRDs pruning, defaults and validation by their schemas, and
// apply to lists that are sets and maps. Two runs with the same requests give the same names, uids and versions.
//
// # Assumptions
//
// Bodies are JSON or YAML, or, for built-in kinds, protobuf; answers are JSON, which clients read in any case.
// Whatever waits on a watch is in the same bubble as those who write.
//
// # Caveats
//
// It is no substitute for the suites on a real API server.
//
// Custom kinds of FromScheme have no schemas: nothing is pruned, defaulted or validated but metadata, and apply replaces
// their lists as wholes. Those of FromCRDs have no CEL rules, and an invalid value that was there before is not tolerated.
// Built-in kinds are held to their Go types, but have no defaults and no validation beyond that. A kind in two versions is
// two kinds, whose objects are not converted. There is no admission, no access control, no subresource but status (and a
// write to it changes nothing else), no strict validation of fields, no other field selector, no paging (a limit is
// ignored), no compaction of the events, no bookmarks but that for the end of a listing, no table for kubectl.
//
// Nobody else is at work: namespaces need not exist, and a deleted one leaves its objects; dependents of deleted objects
// stay, and who deletes in the foreground or orphans has to remove the finalizer for it himself; pods neither run nor
// end gracefully.
//
// Managed fields are kept from the first apply on; what was written before it is in the hands of before-first-apply.
// The first apply to a built-in kind reads the types of all of them, which takes a second of real time, once per process.
//
// # Errors
//
// Answers are Status objects with the codes and reasons of a real server. A kind that is unknown is 404.
package apiserver
