// Package apiserver plays a Kubernetes API server in memory, behind an [http.RoundTripper]: no network, no
// goroutines, so that whole operators run on it inside a testing/synctest bubble, in virtual time.
//
//	server := apiserver.New(schema.GroupVersion{Group: "example.com", Version: "v1"},
//		apiserver.Resource{Kind: "Widget", Plural: "widgets", HasStatus: true})
//	config := &rest.Config{Host: "http://simulated", Transport: server}
//
// # Flow
//
// A request is routed, and answered under one lock. Each write counts the version up and appends an event;
// a watch is a body that reads on in the list of events, and waits for more.
//
// # Guarantees
//
// What operators rely on: discovery; list, watch (with the listing at its beginning if that is asked for,
// and bookmarks for its end), get, create, update, delete, merge patch of the object and of its status; names
// and namespaces; resourceVersion and uid as preconditions; deletion that waits for finalizers, and whose last
// step does not count the version of the answer up; writes that change nothing make no event.
//
// # Assumptions
//
// Bodies are JSON. Objects are custom resources in namespaces, and their schemas preserve all fields.
//
// # Caveats
//
// It is no substitute for the suites on a real API server: what it does was copied from that by hand.
// There are no schemas, no admission, no selectors, no paging and no compaction.
//
// # Errors
//
// Answers are Status objects with the codes and reasons of a real server; what is not supported is 405.
package apiserver
