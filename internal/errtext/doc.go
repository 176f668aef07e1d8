// Package errtext limits the length of error texts. Users control parts of them: the API server quotes, for example, a long value when it
// rejects an object, and every attempt logs the text.
package errtext
