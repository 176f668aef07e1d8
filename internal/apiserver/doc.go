// Package apiserver implements an in-memory Kubernetes API server as an [http.RoundTripper]. It needs no network and no goroutines. Operators can
// therefore use it in a bubble of testing/synctest, in virtual time.
//
//	server := apiserver.New(append(apiserver.FromScheme(scheme), apiserver.FromCRDs(crds...)...)...)
//	if err := server.Add(objects...); err != nil {
//		return err // names the invalid objects
//	}
//	config := &rest.Config{Host: "http://in-memory", Transport: server, QPS: -1}
//
// # Concepts
//
// The server handles one request at a time, under a lock. Each write increments the version and appends an event. The body of a watch response reads
// the list of events and waits for further ones.
//
// A [Replica] is a second API server on the same store. Its cache for reads may lag behind.
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
//   - Custom kinds of FromScheme have no schemas. Only their metadata is validated, nothing is pruned or defaulted, and apply replaces whole lists.
//   - Custom kinds of FromCRDs have no CEL rules and no ratcheting validation.
//   - Built-in kinds must fit their Go types. They have no defaults and no further validation.
//   - Versions of a kind are separate kinds without conversion.
//   - There is no admission, access control, other subresource or field selector, paging, compaction, strict field validation, or table output.
//   - There are no controllers. Namespaces need not exist, dependents are not deleted, and pods do not run. A test that deletes with
//     foreground or orphan propagation must remove the finalizer itself.
//   - The first apply to an object starts its managed fields. It assigns the fields of earlier writes to before-first-apply.
//   - Once per process, the first apply to a built-in kind takes a second of real time to load the types.
package apiserver
