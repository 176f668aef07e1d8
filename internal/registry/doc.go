// Package registry stores the handlers of one kind by id, in the order of their registration.
//
// Ids and storage keys are unique. All handlers must be added before the engine starts, because reading takes no lock.
package registry
