// Package decoding keeps a cache of typed objects working if some stored objects do not decode into their Go type.
//
// A schema can be looser than the Go type, and objects can be older than the schema: a number with a fraction in an int32, or a number in a [metav1.Time].
// client-go decodes a page of a list as a whole, and ends a watch at an event that it cannot decode. The informer then lists the objects again and again,
// and delivers none of them.
//
//	faults := decoding.NewFaults()
//	options, err := decoding.Tolerate(config, options, faults)
//	objects, err := cache.New(config, options)
//
// [Tolerate] wraps the list and the watch of each typed informer. If a list fails because of its content, the wrapper repeats it with a filter that removes
// the objects that do not decode, and records them in [Faults]. As long as there are such objects, it filters the watch, too. Without them, the requests are
// those of client-go, and nothing is decoded twice. Go types with their own UnmarshalJSON are an exception: their watches are always filtered, because a panic
// while client-go decodes an event would end the process.
//
// An object that is cached when it becomes faulty must leave the cache. The filter then ends the watch as if its version had expired, so that the informer
// lists the objects again, and reports the missing one as deleted. When the object is repaired, it comes back as created.
//
// [Check] and [Find] find the faulty objects and fields for a cache that does not tolerate them.
package decoding
