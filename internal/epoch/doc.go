// Package epoch detects that the cache of a kind is older than the start of the process.
//
// The epoch is the resource version at the start of the process, when an earlier process had stopped. An older cache may lack the last writes of that
// process: the reflector of client-go can list from an API server that lags behind.
//
//	e := &epoch.Epoch{Version: version, Store: storeOf, Reader: apiReader, GVK: gvk, States: states}
//	passed := e.IsPassed(namespace) // before the object is read from the cache
//	if !passed && e.IsOlder(obj) {
//		// read the object from the API server
//	}
//
// A nil *Epoch is valid: every state of the cache is then trusted.
package epoch
