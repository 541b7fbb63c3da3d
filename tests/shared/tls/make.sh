#!/bin/sh
# Makes the certificates of the tests anew (OpenSSL 3): an authority, a broker called broker.test, and a client. They are
# valid for 100 years; the authority's key is not kept.
set -e
cd "$(dirname "$0")"
subject() { openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1.key" -out "$1.csr" -subj "/CN=$1"; }
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -days 36500 \
  -subj "/CN=tests of kafka-conformance" -addext "keyUsage=critical,keyCertSign" -addext "basicConstraints=critical,CA:TRUE"
for name in broker client; do
  subject $name
  printf 'subjectAltName=DNS:%s.test\nsubjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n' $name > extensions
  openssl x509 -req -in $name.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 36500 -extfile extensions -out $name.pem
done
rm -f ./*.csr ./*.srl ca.key extensions
