// Package apiserver implements an in-memory Kubernetes API server as an [http.RoundTripper]. It needs no network and no goroutines, so
// operators can use it in virtual time, in a testing/synctest bubble.
//
//	server := apiserver.New(append(apiserver.FromScheme(scheme), apiserver.FromCRDs(crds...)...)...)
//	if err := server.Add(objects...); err != nil {
//		return err // names the invalid objects
//	}
//	config := &rest.Config{Host: "http://in-memory", Transport: server, QPS: -1}
//
// # Concepts
//
// A lock serializes all reads and writes of objects. Each change increments the store's version and appends an event to a list. The body of
// a watch response reads this list and then waits for more events.
//
// An [Endpoint] serves the server on a port of this machine, for kubectl and for operators in other processes. It also serves the kinds of
// CRDs that clients create. Every client with its token may do everything.
//
// A [Replica] is a second API server on the same store. Its read cache may lag behind the store.
//
// # Scope
//
// The tests in test/simulation/conformance compare these features with a real server:
//
//   - discovery;
//   - get, list and watch, with label selectors and field selectors: the usual ones of Pods, core Events, Nodes, Namespaces and Secrets, and
//     the selectableFields of CRDs. A watch reports an object as deleted when it no longer matches the selectors. A watch can start with a
//     list, followed by a bookmark;
//   - create, update, delete and deletecollection, with generated names, dry runs, and resourceVersion and uid as preconditions;
//   - JSON patch, merge patch, strategic merge patch of built-in kinds, and server-side apply with conflicts;
//   - the status subresource, generations, finalizers, and validation of metadata. A write that changes nothing doesn't cause an event;
//   - objects reduced to their metadata (PartialObjectMetadata);
//   - for custom kinds of FromCRDs: pruning, defaults and validation with their schemas, and apply to lists of type set and map.
//
// Two runs with the same requests produce the same names, uids and versions. Errors are Status objects with the codes and reasons of a real
// server. Request bodies may be JSON or YAML, and for built-in kinds protobuf. Responses are JSON.
//
// # Caveats
//
// The server does not replace tests on a real API server:
//
//   - Custom kinds of FromScheme have no schemas, so the server validates only their metadata and doesn't prune or default other fields.
//     Apply replaces whole lists outside of the metadata.
//   - Custom kinds of FromCRDs have no CEL rules and no ratcheting validation.
//   - Built-in objects must fit their Go types, but only their metadata is validated. The server sets only two defaults: the type of a
//     Secret, and the initial phase of some kinds.
//   - The versions of a kind are separate kinds that are not converted into each other, apart from the Events of the core group and of
//     events.k8s.io.
//   - There is no admission, access control, other subresource, paging, compaction, or strict field validation. Only custom
//     kinds with additionalPrinterColumns have table output, which no test compares with a real server.
//   - There are no controllers: namespaces need not exist, dependents are not deleted, and pods don't run. A test that deletes with
//     foreground or orphan propagation must remove the finalizer itself.
//   - An object has no managed fields before its first apply, which assigns the existing fields to the manager before-first-apply.
//   - The first apply to a built-in kind takes a second of real time per process, because it loads the types.
package apiserver
