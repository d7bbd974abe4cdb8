#!/usr/bin/env bash
# @nestjs/swagger 12.0.2: a property that is a nullable class is written, in OpenAPI 3.0, as `nullable: true` beside
# `type: object` and `allOf` with a reference to a schema that does not allow null: read to the letter, null is refused.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-fund --no-audit @nestjs/swagger@12.0.2 @nestjs/common@12.5.1 @nestjs/core@12.5.1 \
  @nestjs/platform-express@12.5.1 reflect-metadata@0.2.2 rxjs@7.8.2
cat > document.cjs <<'JS'
require("reflect-metadata");
const { Controller, Get, Module } = require("@nestjs/common");
const { NestFactory } = require("@nestjs/core");
const { ApiOkResponse, ApiProperty, DocumentBuilder, SwaggerModule } = require("@nestjs/swagger");

function decorate(decorators, target, key) {
  const described = key === undefined ? undefined : Object.getOwnPropertyDescriptor(target, key);
  for (const decorator of decorators) decorator(target, key, described);
}

class Address {}
decorate([ApiProperty({ type: String })], Address.prototype, "city");
class Person {}
decorate([ApiProperty({ type: Address, nullable: true })], Person.prototype, "address");
class People {
  person() {
    return { address: null };
  }
}
decorate([ApiOkResponse({ type: Person }), Get("person")], People.prototype, "person");
decorate([Controller()], People);
class App {}
decorate([Module({ controllers: [People] })], App);

(async () => {
  const app = await NestFactory.create(App, { logger: false });
  const document = SwaggerModule.createDocument(app, new DocumentBuilder().build());
  const { address } = document.components.schemas.Person.properties;
  console.log("OpenAPI", document.openapi, address);
  const same = JSON.stringify(address) === JSON.stringify({
    nullable: true,
    type: "object",
    allOf: [{ $ref: "#/components/schemas/Address" }],
  });
  process.exit(same && document.components.schemas.Address.nullable === undefined ? 0 : 1);
})();
JS
npm ls --depth=0 @nestjs/swagger | tail -n +2
node document.cjs
