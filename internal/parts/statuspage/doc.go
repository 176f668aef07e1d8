// Package statuspage serves an operator's status page, which lists all objects with their unfinished handlers and can explain a single
// object.
//
// It consists of an HTML file, a script and a style sheet. The script loads JSON from [ObjectsPath] and [ExplainPath].
package statuspage
