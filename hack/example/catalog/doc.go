// Package catalog finds the examples and their files, for the command that runs them and for the tests.
//
//	examples/01-minimal
//	    main.go, or cmd/main.go       the operator
//	    config/crd, config/samples    its CRDs and samples
//	    README.md                     description and commands
//
// Errors name the invalid file.
package catalog
