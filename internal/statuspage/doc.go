// Package statuspage serves the status page of an operator: all objects with their unfinished handlers, and the explanation of one object.
//
// The page is one file with a script and a style sheet. It loads the other paths below [Path]: objects and explain, which are JSON.
package statuspage
