// Package catalog knows which examples there are, and what is in their folders: for the command that runs one, and for
// the tests that walk through them.
//
//	examples/01-minimal
//	    main.go, or cmd/main.go       the operator
//	    config/crd, config/samples    what it needs in the cluster, and what to try it with
//	    README.md                     what one sees, and what to do meanwhile
//
// # Errors
//
// Each names the file that is wrong.
package catalog
