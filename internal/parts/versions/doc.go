// Package versions notices changes of the version of the API server.
package versions
