// Package statuspage serves the status page of an operator: all objects with their unfinished handlers, and the explanation of one object.
//
// The page consists of an HTML file, a script and a style sheet. The script loads JSON from [ObjectsPath] and [ExplainPath].
package statuspage
