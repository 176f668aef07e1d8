// Package apiserver implements an in-memory Kubernetes API server as an [http.RoundTripper]. The server needs no network and no goroutines. Operators can
// therefore use the server in a bubble of testing/synctest, in virtual time.
//
//	server := apiserver.New(append(apiserver.FromScheme(scheme), apiserver.FromCRDs(crds...)...)...)
//	if err := server.Add(objects...); err != nil {
//		return err // names the invalid objects
//	}
//	config := &rest.Config{Host: "http://in-memory", Transport: server, QPS: -1}
//
// # Concepts
//
// A lock serializes all reads and writes of objects. Each change of an object increments the version of the store and appends an event to a list. The
// body of a watch response reads this list and waits for further events.
//
// An [Endpoint] serves the server on a port of this machine, for kubectl and for operators in other processes. It also serves the kinds of CRDs that clients create,
// and allows each client with its token everything.
//
// A [Replica] is a second API server on the same store. Its cache for reads may lag behind the store.
//
// # Scope
//
// The tests in test/simulation/conformance compare these features with a real server:
//
//   - discovery;
//   - get, list and watch, with label selectors and the field selectors metadata.name and metadata.namespace. If an object no longer
//     matches the selectors, a watch reports it as deleted. A watch can start with a list, which ends with a bookmark;
//   - create, update, delete and deletecollection, with generated names, dry runs, and resourceVersion and uid as preconditions;
//   - JSON patch, merge patch, strategic merge patch of built-in kinds, and server-side apply with conflicts;
//   - the status subresource, generations, finalizers, and validation of metadata. A write that changes nothing causes no event;
//   - objects reduced to their metadata (PartialObjectMetadata);
//   - for custom kinds of FromCRDs: pruning, defaults and validation by their schemas, and apply to lists of type set and map.
//
// Names, uids and versions are the same in two runs with the same requests. Errors are Status objects with the codes and reasons of a real
// server. Request bodies may be JSON, YAML, or protobuf for built-in kinds. Responses are JSON.
//
// # Caveats
//
// The server does not replace tests on a real API server:
//
//   - Custom kinds of FromScheme have no schemas. The server validates only their metadata and prunes and defaults no other field. Apply replaces
//     whole lists outside of the metadata.
//   - Custom kinds of FromCRDs have no CEL rules and no ratcheting validation.
//   - Built-in objects must fit their Go types. The server validates only their metadata. It sets only two defaults: the type of a Secret, and the
//     initial phase of some kinds.
//   - Versions of a kind are separate kinds without conversion.
//   - There is no admission, access control, other subresource, paging, compaction, strict field validation, or table output. Other field selectors
//     exist only for Events, and no test compares them with a real server.
//   - There are no controllers. Namespaces need not exist, dependents are not deleted, and pods do not run. A test that deletes with
//     foreground or orphan propagation must remove the finalizer itself.
//   - An object has no managed fields before its first apply. This apply assigns the existing fields to the manager before-first-apply.
//   - Once per process, the first apply to a built-in kind takes a second of real time to load the types.
package apiserver
