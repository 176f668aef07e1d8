// Package leancache keeps the caches of handled objects small. Most objects have not changed since they were handled, and their
// last-handled configuration can then be computed from the rest of the object. So a [Form] replaces it by its digest before the cache
// stores the object:
//
//	informers = forms.Informers(informers) // the transformation of each informer shrinks its objects
//	cached = forms.Wrap(cached)            // readers get whole objects
//
// While an object differs from its last-handled configuration, the cache contains both.
package leancache
