// Package metrics holds the counters of the library, registered with controller-runtime's registry,
// so that they are served wherever the manager serves its own.
//
// # Flow
//
// Other packages count; nobody reads but the scraper.
//
// # Guarantees
//
// Labels have few values: the name of the kind's controller, the id of a handler, the outcome.
//
// # Assumptions
//
// One registry in a process, as controller-runtime has it.
//
// # Caveats
//
// Two operators on one kind in one process share the series, unless their resources are named apart.
//
// # Errors
//
// None.
package metrics
