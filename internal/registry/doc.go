// Package registry keeps the handlers of a kind.
//
// # Flow
//
// The facade adds handlers before the start; the engine selects from them in every pass.
//
// # Guarantees
//
// Ids and storage keys are unique. The order is that of registration.
//
// # Assumptions
//
// Nothing is added once the engine runs: reading needs no lock.
//
// # Caveats
//
// What a handler is, the registry does not know: it is a type parameter.
//
// # Errors
//
// [Registry.Add] refuses a taken id or key, and says how to mend it.
package registry
