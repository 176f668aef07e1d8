// Package errtext limits the texts of errors. Users choose parts of these texts, for example with a long value that the API server quotes when it rejects
// an object, and the texts are logged in each attempt.
package errtext
