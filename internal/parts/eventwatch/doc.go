// Package eventwatch watches Kubernetes Events and finds the owners of the objects that they are about.
//
// A [Watcher] delivers the Events about one kind in one namespace. It doesn't cache them. It only keeps their counts and times, to limit
// how often handlers are called for repeated Events. [Owners] follows owner references and reads only metadata.
package eventwatch
