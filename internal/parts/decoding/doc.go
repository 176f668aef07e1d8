// Package decoding keeps a cache of typed objects working if some stored objects don't decode into their Go type.
//
// This can happen because a schema can be looser than the Go type, and objects can be older than the schema. Examples are a fraction in an
// int32 field, or a number in a [metav1.Time]. client-go decodes a page of a list as a whole, and stops a watch at an event that it can't
// decode. The informer then lists over and over again, and never delivers any object.
//
//	faults := decoding.NewFaults()
//	options, err := decoding.Tolerate(config, options, faults)
//	objects, err := cache.New(config, options)
//
// [Tolerate] wraps the list and the watch of each typed informer. If a list fails because of its content, the wrapper retries it with a
// filter. The filter removes the objects that don't decode, and records them in [Faults]. As long as there are such objects, the watch is
// filtered, too. Otherwise, requests are the same as client-go's, and nothing is decoded twice. Go types with their own UnmarshalJSON are
// an exception: their watches are always filtered, because a panic while client-go decodes an event would kill the process.
//
// If a cached object becomes faulty, it must leave the cache. The filter therefore closes the watch as if its version had expired. The
// informer then lists again and reports the object as deleted. Once the object is repaired, it comes back as created.
//
// [Check] and [Find] find faulty objects and fields for a cache that doesn't tolerate them.
package decoding
