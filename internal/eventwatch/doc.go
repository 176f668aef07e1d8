// Package eventwatch watches Kubernetes Events and finds the objects that own what the Events are about.
//
// A [Watcher] delivers the Events about one kind in one namespace. It keeps no cache of Events: only the times of those that it has delivered, to limit the
// calls for Events that occur repeatedly. [Owners] follows owner references, with reads of metadata.
package eventwatch
