// Package eventwatch watches Kubernetes Events and finds the owners of the objects in these Events.
//
// A [Watcher] delivers the Events about one kind in one namespace. It does not cache delivered Events. It keeps only their counts and times, to limit
// the calls for Events that occur repeatedly. [Owners] follows owner references and reads only metadata.
package eventwatch
