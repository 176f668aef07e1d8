// Package epoch detects whether a kind's cache is older than the process.
//
// The epoch is the resource version when the process started, and an earlier process had already stopped. A cache older than that may lack
// the earlier process's last writes, because client-go's reflector can list from an API server that lags behind.
//
//	e := &epoch.Epoch{Version: version, Store: storeOf, Reader: apiReader, GVK: gvk, States: states}
//	passed := e.IsPassed(namespace) // before the object is read from the cache
//	if !passed && e.IsOlder(obj) {
//		// read the object from the API server
//	}
//
// A nil *Epoch is valid and trusts every state in the cache.
package epoch
